import{Ma as o,a as p,c as m}from"./chunk-PMVALXT4.js";m(p(o,null),document.getElementById("app"));
