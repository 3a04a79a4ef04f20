import{a as p,c as m,la as o}from"./chunk-MAWN7DOD.js";m(p(o,null),document.getElementById("app"));
