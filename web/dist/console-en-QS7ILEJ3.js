import{Oa as o,a as p,c as m}from"./chunk-FZZCCBTP.js";m(p(o,null),document.getElementById("app"));
