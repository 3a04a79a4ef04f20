import{Pa as o,a as p,c as m}from"./chunk-D2DS5XMC.js";m(p(o,null),document.getElementById("app"));
