import{Pa as o,a as p,c as m}from"./chunk-5OHL2CM6.js";m(p(o,null),document.getElementById("app"));
