import{Wa as o,a as p,c as m}from"./chunk-SXFSPB7A.js";m(p(o,null),document.getElementById("app"));
