import{Wa as o,a as p,c as m}from"./chunk-OGMS3OP7.js";m(p(o,null),document.getElementById("app"));
