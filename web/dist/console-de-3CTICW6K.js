import{Wa as o,a as p,c as m}from"./chunk-OAR6VTSS.js";m(p(o,null),document.getElementById("app"));
