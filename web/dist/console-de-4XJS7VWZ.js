import{a as p,c as m,la as o}from"./chunk-Y4C66EIF.js";m(p(o,null),document.getElementById("app"));
