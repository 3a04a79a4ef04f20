import{Ma as o,a as p,c as m}from"./chunk-JS2O3SUB.js";m(p(o,null),document.getElementById("app"));
