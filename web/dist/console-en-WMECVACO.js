import{Ma as o,a as p,c as m}from"./chunk-NMZ7FYGV.js";m(p(o,null),document.getElementById("app"));
