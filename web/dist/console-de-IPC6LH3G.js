import{Wa as o,a as p,c as m}from"./chunk-E5ECYSMX.js";m(p(o,null),document.getElementById("app"));
