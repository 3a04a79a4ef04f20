import{Ma as o,a as p,c as m}from"./chunk-IOJOGTBW.js";m(p(o,null),document.getElementById("app"));
