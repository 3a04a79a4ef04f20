import{Wa as o,a as p,c as m}from"./chunk-NCVL22ZF.js";m(p(o,null),document.getElementById("app"));
