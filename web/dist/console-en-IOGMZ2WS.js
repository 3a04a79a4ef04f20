import{Wa as o,a as p,c as m}from"./chunk-V4QGC7EE.js";m(p(o,null),document.getElementById("app"));
