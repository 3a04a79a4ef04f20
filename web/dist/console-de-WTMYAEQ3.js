import{a as p,c as m,la as o}from"./chunk-SU2GRERT.js";m(p(o,null),document.getElementById("app"));
