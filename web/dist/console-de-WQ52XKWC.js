import{Oa as o,a as p,c as m}from"./chunk-L74Q5EDU.js";m(p(o,null),document.getElementById("app"));
