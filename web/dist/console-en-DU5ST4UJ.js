import{a as p,c as m,ia as o}from"./chunk-CRLJHQ7D.js";m(p(o,null),document.getElementById("app"));
