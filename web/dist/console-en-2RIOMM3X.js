import{a as p,c as m,va as o}from"./chunk-ZVMCNWHS.js";m(p(o,null),document.getElementById("app"));
