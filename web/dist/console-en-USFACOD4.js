import{Ma as o,a as p,c as m}from"./chunk-US4IM2WU.js";m(p(o,null),document.getElementById("app"));
