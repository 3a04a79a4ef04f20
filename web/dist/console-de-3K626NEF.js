import{Va as o,a as p,c as m}from"./chunk-IZJYSF5F.js";m(p(o,null),document.getElementById("app"));
