import{Oa as o,a as p,c as m}from"./chunk-7V5X4CEB.js";m(p(o,null),document.getElementById("app"));
