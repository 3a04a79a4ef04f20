import{Pa as o,a as p,c as m}from"./chunk-J7E2KX3W.js";m(p(o,null),document.getElementById("app"));
