import{Wa as o,a as p,c as m}from"./chunk-E36UWIIM.js";m(p(o,null),document.getElementById("app"));
