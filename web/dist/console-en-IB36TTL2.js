import{a as p,c as m,va as o}from"./chunk-BEMQK2RT.js";m(p(o,null),document.getElementById("app"));
