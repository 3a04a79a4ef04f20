import{Wa as o,a as p,c as m}from"./chunk-KSPOGS3M.js";m(p(o,null),document.getElementById("app"));
