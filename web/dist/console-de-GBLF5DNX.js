import{Ma as o,a as p,c as m}from"./chunk-UCG76PEJ.js";m(p(o,null),document.getElementById("app"));
