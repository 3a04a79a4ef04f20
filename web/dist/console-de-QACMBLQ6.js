import{a as p,c as m,ma as o}from"./chunk-RKAEEVGW.js";m(p(o,null),document.getElementById("app"));
