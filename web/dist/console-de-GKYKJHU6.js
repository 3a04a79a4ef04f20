import{Oa as o,a as p,c as m}from"./chunk-BGRD2HVL.js";m(p(o,null),document.getElementById("app"));
