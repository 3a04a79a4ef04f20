import{Ma as o,a as p,c as m}from"./chunk-PGEYRFL5.js";m(p(o,null),document.getElementById("app"));
