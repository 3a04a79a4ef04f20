import{Xa as o,a as p,c as m}from"./chunk-GIQLDAAB.js";m(p(o,null),document.getElementById("app"));
