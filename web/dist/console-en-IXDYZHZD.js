import{a as p,c as m,va as o}from"./chunk-YIVPLKYE.js";m(p(o,null),document.getElementById("app"));
