import{a as p,c as m,va as o}from"./chunk-E6ZAH46C.js";m(p(o,null),document.getElementById("app"));
