import{La as o,a as p,c as m}from"./chunk-PRPK4IEW.js";m(p(o,null),document.getElementById("app"));
