import{Ma as o,a as p,c as m}from"./chunk-6HX2JWPK.js";m(p(o,null),document.getElementById("app"));
