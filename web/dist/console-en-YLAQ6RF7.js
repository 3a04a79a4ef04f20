import{Wa as o,a as p,c as m}from"./chunk-G3Y7H2SQ.js";m(p(o,null),document.getElementById("app"));
