import{Ma as o,a as p,c as m}from"./chunk-EKZM5Z27.js";m(p(o,null),document.getElementById("app"));
