import{a as p,c as m,va as o}from"./chunk-G2VUPZNZ.js";m(p(o,null),document.getElementById("app"));
