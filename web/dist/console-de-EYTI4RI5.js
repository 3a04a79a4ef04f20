import{Ma as o,a as p,c as m}from"./chunk-4OW7SOBU.js";m(p(o,null),document.getElementById("app"));
