import{Xa as o,a as p,c as m}from"./chunk-LI6HAMWE.js";m(p(o,null),document.getElementById("app"));
