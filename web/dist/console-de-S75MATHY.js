import{Xa as o,a as p,c as m}from"./chunk-QDP27UGB.js";m(p(o,null),document.getElementById("app"));
