import{Ma as o,a as p,c as m}from"./chunk-55226DSW.js";m(p(o,null),document.getElementById("app"));
