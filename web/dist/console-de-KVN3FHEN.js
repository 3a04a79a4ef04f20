import{Wa as o,a as p,c as m}from"./chunk-3E7DP3XQ.js";m(p(o,null),document.getElementById("app"));
