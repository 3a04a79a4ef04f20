import{Ma as o,a as p,c as m}from"./chunk-GZYAEOA2.js";m(p(o,null),document.getElementById("app"));
