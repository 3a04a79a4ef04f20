import{Oa as o,a as p,c as m}from"./chunk-76XMCKRX.js";m(p(o,null),document.getElementById("app"));
