import{La as o,a as p,c as m}from"./chunk-YRZDEFIB.js";m(p(o,null),document.getElementById("app"));
