import{Ma as o,a as p,c as m}from"./chunk-64Y22YKG.js";m(p(o,null),document.getElementById("app"));
