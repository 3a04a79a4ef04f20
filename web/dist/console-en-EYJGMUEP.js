import{Ma as o,a as p,c as m}from"./chunk-I5JYGDVK.js";m(p(o,null),document.getElementById("app"));
