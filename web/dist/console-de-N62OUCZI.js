import{La as o,a as p,c as m}from"./chunk-M3EDCZRH.js";m(p(o,null),document.getElementById("app"));
