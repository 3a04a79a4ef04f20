import{a as p,c as m,sa as o}from"./chunk-7HVR3LZB.js";m(p(o,null),document.getElementById("app"));
