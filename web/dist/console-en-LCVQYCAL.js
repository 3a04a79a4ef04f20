import{Xa as o,a as p,c as m}from"./chunk-3Z3XC3I6.js";m(p(o,null),document.getElementById("app"));
