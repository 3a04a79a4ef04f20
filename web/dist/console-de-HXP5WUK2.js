import{Ra as o,a as p,c as m}from"./chunk-Y53LT3VY.js";m(p(o,null),document.getElementById("app"));
