import{Ma as o,a as p,c as m}from"./chunk-T6C7D44W.js";m(p(o,null),document.getElementById("app"));
