import{La as o,a as p,c as m}from"./chunk-YGXOHD4E.js";m(p(o,null),document.getElementById("app"));
